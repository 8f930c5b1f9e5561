"""The commands of `recall`: a module a group."""

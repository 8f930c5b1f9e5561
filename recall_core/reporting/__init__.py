"""The report: frames and findings to Markdown, HTML and the index page."""

"""Speed, measured side by side with a named peer in one run: `make bench`.

Times are medians over a few rounds in which every contestant takes its turn, so that a machine that slows
down slows down for all. Read the ratios; one absolute time says little.
"""

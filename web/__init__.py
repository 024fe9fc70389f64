"""The page and the JSON API over a store."""

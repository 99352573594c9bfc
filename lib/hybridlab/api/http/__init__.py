"""The API over HTTPS: paths, encodings, discovery, tables, watches, exec and logs.  Rules are not here."""

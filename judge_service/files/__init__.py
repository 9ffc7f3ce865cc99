"""Files as rows of fields: JSON lines, CSV and Parquet, read as a stream, and the text of rows that are written."""

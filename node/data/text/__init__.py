"""What the text of a cell says: numbers, dates, words; and the columns that cells make."""

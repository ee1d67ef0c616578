"""Made from proto/, queries/ and migrations/ by gen/generate.py: never edited."""

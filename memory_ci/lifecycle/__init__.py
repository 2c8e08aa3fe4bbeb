"""Rules over entries: compaction, promotion, prominence, retirement. Pure: they return values or changes."""

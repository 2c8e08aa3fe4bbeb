"""Pure rules over entries: compaction, promotion, prominence, retirement."""

{{ tidemark.typed_changes(
    source('ticketing', 'mlb_data'),
    tidemark.feed('ticketing', 'mlb_data'),
) }}

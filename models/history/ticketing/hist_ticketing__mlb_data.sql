{{ tidemark.history_from_changes(
    ref('stg_ticketing__mlb_data'),
    tidemark.feed('ticketing', 'mlb_data'),
) }}

{{ history_from_changes(
    ref('stg_ticketing__mlb_data'),
    feed('ticketing', 'mlb_data'),
) }}

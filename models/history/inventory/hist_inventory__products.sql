{{ tidemark.history_from_changes(ref('stg_inventory__products'), tidemark.feed('inventory', 'products')) }}

{{ history_from_changes(ref('stg_insurance__policies'), feed('insurance', 'policies')) }}

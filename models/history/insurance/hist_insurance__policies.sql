{{ tidemark.history_from_changes(ref('stg_insurance__policies'), tidemark.feed('insurance', 'policies')) }}

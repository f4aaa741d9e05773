{{ config(unique_key=['policy_id']) }}

{{ tidemark.current_from_changes(ref('stg_insurance__policies'), tidemark.feed('insurance', 'policies')) }}

{#
    Every row that landed according to the ledger is in the change log exactly once.

    Returns the files with more or fewer rows in the log than landed.

    Arguments
        source_name (string): the source's name in the ledger.
        table_name (string): the table's name in the ledger.
#}
{% test log_is_complete(model, source_name, table_name) %}

    with

    {# Rows of retracted files are no longer in the log. #}
    retracted as (

        select
            file,
            max(load_id) as retracted_in

        from {{ api.Relation.create(schema='tidemark', identifier='ledger') }}

        where
            source_name = '{{ source_name }}'
            and table_name = '{{ table_name }}'
            and status = 'retracted'

        group by file

    ),

    landed as (

        select
            load_id,
            file,
            max(rows) as row_count

        from {{ api.Relation.create(schema='tidemark', identifier='ledger') }}

        left join retracted using (file)

        where
            source_name = '{{ source_name }}'
            and table_name = '{{ table_name }}'
            and status in ('landed', 'set_aside')
            and load_id > coalesce(retracted_in, 0)

        group by load_id, file

    ),

    {# The rows that erasures have deleted. An erasure that was killed may have counted them twice. #}
    erased as (

        select
            load_id,
            file,
            sum(row_count) as row_count

        from (
            select
                load_id,
                file,
                run_id,
                max(rows) as row_count

            from {{ api.Relation.create(schema='tidemark', identifier='ledger') }}

            where
                source_name = '{{ source_name }}'
                and table_name = '{{ table_name }}'
                and status = 'erased'

            group by load_id, file, run_id
        )

        group by load_id, file

    ),

    logged as (

        select
            _load_id as load_id,
            _file as file,
            count(*) as row_count

        from {{ model }}

        -- Position 0 is the truncate that landing puts before a full load.
        where _position > 0

        group by _load_id, _file

    )

    select
        load_id,
        file,
        landed.row_count as landed_row_count,
        logged.row_count as logged_row_count

    from landed

    full join logged using (load_id, file)

    left join erased using (load_id, file)

    where
        coalesce(landed.row_count, 0)
        <> coalesce(logged.row_count, 0) + coalesce(erased.row_count, 0)

{% endtest %}

{#
    Every row that landed according to the ledger is in the change log exactly once.

    Returns the files with more or fewer rows in the log than landed.

    Arguments
        source_name (string): the source's name in the ledger.
        table_name (string): the table's name in the ledger.
#}
{% test log_is_complete(model, source_name, table_name) %}

    {%- if execute and adapter.has_all_loads is defined and adapter.has_all_loads(model, source_name, table_name) %}

    {# Proved by Delta's statistics of the log's files, which need no query. #}
    select 'no file' as file where false

    {%- else %}
    {%- set cut = tidemark.cut_of({'logs': [model]}) %}

    with

    {# An erasure that was killed may have counted the rows that it deleted twice. #}
    of_runs as (

        select
            load_id,
            file,
            run_id,
            max(if(status in ('landed', 'set_aside'), rows, null)) as landed_rows,
            max(if(status = 'erased', rows, null)) as erased_rows,
            max(if(status = 'retracting', load_id, null)) as begun_in,
            max(if(status = 'retracted', load_id, null)) as ended_in

        from {{ api.Relation.create(schema='tidemark', identifier='ledger') }}

        where
            source_name = '{{ source_name }}'
            and table_name = '{{ table_name }}'

        group by load_id, file, run_id

    ),

    entries as (

        select
            load_id,
            file,
            max(landed_rows) as row_count,
            coalesce(sum(erased_rows), 0) as erased_count

        from of_runs

        group by load_id, file

    ),

    retractions as (

        select
            file,
            max(begun_in) as begun_in,
            max(ended_in) as ended_in

        from of_runs

        group by file

    ),

    {# The ledger says that a file is retracted after the models are built without its rows. #}
    landed as (

        select
            load_id,
            file,
            row_count,
            erased_count

        from entries

        inner join retractions using (file)

        where load_id > greatest(coalesce(begun_in, 0), coalesce(ended_in, 0))

    ),

    logged as (

        select
            _load_id as load_id,
            {{ tidemark.file_column() }} as file,
            count(*) as row_count

        from {{ model }}

        -- Position 0 is the truncate that landing puts before a full load.
        where _position > 0

        group by _load_id, {{ tidemark.file_column() }}

    )

    select
        load_id,
        file,
        landed.row_count as landed_row_count,
        logged.row_count as logged_row_count

    from landed

    full join logged using (load_id, file)

    left join retractions using (file)

    where
        -- Until the next run, the rows may still be there.
        not coalesce(begun_in > coalesce(ended_in, 0) and load_id <= begun_in, false)
        and coalesce(landed.row_count, 0)
        <> coalesce(logged.row_count, 0) + coalesce(landed.erased_count, 0)
        {%- if cut %}
        -- Old changes were deleted.
        and not (load_id <= {{ cut.load_id }} and coalesce(logged.row_count, 0) < landed.row_count)
        {%- endif %}

    {%- endif %}

{% endtest %}

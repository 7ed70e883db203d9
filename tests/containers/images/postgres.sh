# Does what the entry point of the official image does: make the cluster once, then serve it.
set -e
data=/var/lib/postgresql/data
bin=$(echo /usr/lib/postgresql/*/bin)
if [ "$(id -u)" = 0 ]; then
    chown postgres:postgres /var/lib/postgresql
    exec setpriv --reuid=postgres --regid=postgres --clear-groups /bin/sh "$0"
fi
if [ ! -s $data/PG_VERSION ]; then
    printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
    # shellcheck disable=SC2086
    "$bin/initdb" -D $data --username="$POSTGRES_USER" --pwfile=/tmp/password $POSTGRES_INITDB_ARGS
    rm /tmp/password
    echo "host all all all scram-sha-256" >> $data/pg_hba.conf
    "$bin/pg_ctl" -D $data -o "-c listen_addresses=''" -w start
    export PGPASSWORD="$POSTGRES_PASSWORD"
    "$bin/psql" -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d postgres -c "CREATE DATABASE $POSTGRES_DB"
    for file in /docker-entrypoint-initdb.d/*.sql; do
        "$bin/psql" -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" -f "$file"
    done
    "$bin/pg_ctl" -D $data -m fast -w stop
fi
exec "$bin/postgres" -D $data -c listen_addresses='*'

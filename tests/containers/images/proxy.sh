# Caddy of Debian 12 (2.6) spells a directive as releases before 2.8 do.
sed 's/basic_auth/basicauth/' /etc/caddy/Caddyfile > /tmp/Caddyfile
exec caddy run --adapter caddyfile --config /tmp/Caddyfile

"""Lines about web servers (nginx, apache, caddy): harmless ones, and ones that ask."""

from __future__ import annotations

HARMLESS: tuple[tuple[str, str], ...] = (
    ("nginx -t", "nginx -t"),
    ("nginx -t", "nginx -t -q"),
    ("nginx", "nginx -V"),
    ("nginx", "nginx -T"),
    ("apachectl", "apachectl configtest"),
    ("apachectl", "apachectl -S"),
    ("httpd -t", "httpd -t"),
    ("caddy validate", "caddy validate --config Caddyfile"),
    ("caddy", "caddy fmt --diff"),
)
ASKS: tuple[tuple[str, str], ...] = (
    ("nginx -t", "nginx -t -c /tmp/evil.conf"),
    ("nginx -t", "nginx -t -g 'load_module /tmp/evil.so;'"),
    ("nginx -t", "nginx -t -p /tmp/evil"),
    ("nginx -t", "nginx -t -e .bashrc"),
    ("nginx -t", "nginx -t -s stop"),
    ("nginx", "nginx -tc /tmp/evil.conf"),
    ("apachectl", "apachectl restart"),
    ("apachectl", "apachectl -f /tmp/evil.conf"),
    ("apachectl", "apachectl -t -C 'LoadModule x /tmp/evil.so'"),
    ("apachectl", "apachectl -k stop"),
    ("httpd -t", "httpd -t -f /tmp/evil.conf"),
    ("httpd -t", "httpd -t -E .bashrc"),
    ("caddy validate", "caddy validate --config /tmp/evil.json"),
    ("caddy validate", "caddy validate --envfile .env"),
    ("caddy", "caddy fmt --overwrite"),
    ("caddy", "caddy run"),
    ("caddy", "caddy reload"),
    ("caddy", "caddy add-package evil"),
)

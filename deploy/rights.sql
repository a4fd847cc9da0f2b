-- Who may do what, once the owner has made the tables; may be run again. With psql, which sets the password:
--   psql -v ON_ERROR_STOP=1 -v agent_password=… -f rights.sql

-- Agents and hubs: they add to the audit, and never change it.
SELECT 'CREATE ROLE sayso_agent LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'sayso_agent') \gexec
ALTER ROLE sayso_agent PASSWORD :'agent_password';
GRANT USAGE ON SCHEMA sayso TO sayso_agent;
GRANT SELECT ON ALL TABLES IN SCHEMA sayso TO sayso_agent;
GRANT INSERT ON sayso.audit TO sayso_agent;
GRANT UPDATE ON sayso.head TO sayso_agent;
GRANT INSERT, UPDATE ON sayso.writers TO sayso_agent;
GRANT INSERT, UPDATE, DELETE ON sayso.requests, sayso.remembered, sayso.parked, sayso.tokens, sayso.receipts
    TO sayso_agent;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sayso TO sayso_agent;

-- What agents and hubs may do, as the user sayso_agent. The owner of the tables runs it with psql 15 or newer, once they
-- are there and after every upgrade; it may be run again:
--   psql -h db.example.com -U sayso_owner -d sayso -f rights.sql
-- A role that is missing is made, and where SAYSO_AGENT_PASSWORD is in the environment it is given that password: both take
-- a user who may create roles, as in compose.yaml. For a plain owner, an administrator makes the role before, once, with
-- its password (createuser --pwprompt sayso_agent), and leaves that variable out. A password in -v would show in `ps`.
\set ON_ERROR_STOP on
\getenv agent_password SAYSO_AGENT_PASSWORD

SELECT 'CREATE ROLE sayso_agent LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'sayso_agent') \gexec
\if :{?agent_password}
ALTER ROLE sayso_agent PASSWORD :'agent_password';
\endif

-- They add to the audit, and never change it.
GRANT USAGE ON SCHEMA sayso TO sayso_agent;
GRANT SELECT ON ALL TABLES IN SCHEMA sayso TO sayso_agent;
GRANT INSERT ON sayso.audit TO sayso_agent;
GRANT UPDATE ON sayso.head TO sayso_agent;
GRANT INSERT, UPDATE ON sayso.writers TO sayso_agent;
GRANT INSERT, UPDATE, DELETE ON sayso.requests, sayso.remembered, sayso.parked, sayso.runs, sayso.tokens,
    sayso.receipts TO sayso_agent;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA sayso TO sayso_agent;

"""Lines about database migrations (liquibase, flyway, prisma): harmless ones, and ones that ask."""

from __future__ import annotations

HARMLESS: tuple[tuple[str, str], ...] = (
    ("liquibase status", "liquibase status --changelog-file=db/changelog.xml"),
    ("liquibase", "liquibase validate"),
    ("liquibase", "liquibase update-sql"),
    ("flyway info", "flyway info -outputType=json"),
    ("flyway", "flyway validate"),
    ("prisma", "prisma validate"),
    ("prisma", "prisma migrate status"),
    ("prisma", "prisma validate --schema prisma/schema.prisma"),
    ("prisma", "prisma migrate diff --from-empty --to-schema-datamodel prisma/schema.prisma --script"),
)
ASKS: tuple[tuple[str, str], ...] = (
    ("liquibase status", "liquibase status --classpath=/tmp/evil.jar"),
    ("liquibase status", "liquibase status --defaults-file=/tmp/evil"),
    ("liquibase status", "liquibase status --url=jdbc:x"),
    ("liquibase status", "liquibase status --output-file=.bashrc"),
    ("liquibase", "liquibase update"),
    ("liquibase", "liquibase drop-all"),
    ("liquibase", "liquibase --log-file=x status"),
    ("flyway info", "flyway info migrate"),
    ("flyway info", "flyway info -url=jdbc:x"),
    ("flyway info", "flyway info -jarDirs=/tmp/evil"),
    ("flyway info", "flyway info -configFiles=/tmp/evil"),
    ("flyway info", "flyway info -initSql=x"),
    ("flyway", "flyway clean"),
    ("flyway", "flyway repair"),
    ("prisma", "prisma migrate reset --force"),
    ("prisma", "prisma db push"),
    ("prisma", "prisma validate --config evil.ts"),
    ("prisma", "prisma migrate diff --from-empty --to-url postgres://evil"),
    ("prisma", "prisma validate --schema /tmp/evil.prisma"),
    ("prisma", "prisma studio"),
    # Found by an attack.
    ("prisma", "prisma format"),
    ("prisma", "prisma generate"),
    ("flyway info", "flyway info -environment=prod"),
)

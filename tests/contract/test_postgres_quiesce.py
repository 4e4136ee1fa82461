"""PostgreSQL is held and copied as the quiesce port wants it, on a real server; and what only PostgreSQL can do wrong (R16)."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from bridgehead.drivers.postgres_backup import PostgresQuiesce
from bridgehead.drivers.postgres_backup.programs import program
from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.model.recovery import Database, DatabaseEngine
from bridgehead.testing.quiesce_suite import KEY, LASTS_S, SCRIPT, QuiesceRig, QuiesceSuite

pytestmark = pytest.mark.server("pg_ctlcluster")


class Rig(QuiesceRig):
    def __init__(self, server):
        self.server = server
        self.url = server.new_database()
        self.name = self.url.rpartition("/")[2]
        server.sql("CREATE TABLE rows (id bigserial)", database=self.name)
        self.database = Database("ledger", DatabaseEngine.POSTGRES, self.url)
        self.missing = Database("none", DatabaseEngine.POSTGRES, server.url("no_such_database"))

    def driver(self):
        return PostgresQuiesce(secret=lambda reference: "")

    def made(self):
        return f"""
from bridgehead.drivers.postgres_backup import PostgresQuiesce
from bridgehead.model.recovery import Database, DatabaseEngine
driver, database = PostgresQuiesce(secret=str), Database("ledger", DatabaseEngine.POSTGRES, {self.url!r})
"""

    def write(self):
        with psycopg.connect(self.url, options="-c lock_timeout=100") as db:
            try:
                db.execute("INSERT INTO rows DEFAULT VALUES")
            except psycopg.errors.LockNotAvailable:
                return False
        return True

    @contextlib.contextmanager
    def writing(self):
        with psycopg.connect(self.url) as db:
            db.execute("INSERT INTO rows DEFAULT VALUES")
            yield

    def rows(self, copied):
        url = self.server.new_database()
        subprocess.run([program("pg_restore"), "--exit-on-error", f"--dbname={url}", copied.file], check=True)
        return int(self.server.sql("SELECT count(*) FROM rows", database=url.rpartition("/")[2]))


class TestPostgresQuiesce(QuiesceSuite):
    @pytest.fixture
    def rig(self, postgres_server):
        return Rig(postgres_server)

    def test_a_connection_that_is_cut_ends_the_hold(self, rig, folder) -> None:
        """As the server's own operator may; the release tells."""
        driver = rig.driver()
        self.held(rig, driver, folder)
        rig.server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_locks WHERE mode = 'ShareLock' AND relation = {self.oid(rig)}")
        assert not driver.release(rig.database, key=KEY).intact
        assert rig.write()
        driver.drop(rig.database, key=KEY)

    def oid(self, rig) -> str:
        return rig.server.sql("SELECT 'rows'::regclass::oid", database=rig.name)

    def test_truncated_and_dropped_while_it_is_copied_is_in_the_copy(self, rig, folder) -> None:
        """Both would be lost from a mere snapshot: they wait until the copy is made."""
        driver = rig.driver()
        rig.write()
        self.held(rig, driver, folder)
        driver.release(rig.database, key=KEY)
        for statement in ("TRUNCATE rows", "DROP TABLE rows"):
            with psycopg.connect(rig.url, options="-c lock_timeout=100") as db, pytest.raises(psycopg.errors.LockNotAvailable):
                db.execute(statement)
        copy = self.copied(rig, driver)
        rig.server.sql("DROP TABLE rows", database=rig.name)
        assert rig.rows(copy) == 1
        driver.drop(rig.database, key=KEY)

    def test_names_partitions_and_other_schemas_are_held_too(self, rig, folder) -> None:
        """Whatever they are called."""
        with psycopg.connect(rig.url, autocommit=True) as db:
            db.execute('CREATE SCHEMA "Odd one"')
            db.execute('CREATE TABLE "Odd one"."My ""table""" (id int) PARTITION BY LIST (id)')
            db.execute('CREATE TABLE "Odd one".part PARTITION OF "Odd one"."My ""table""" FOR VALUES IN (1)')
            driver = rig.driver()
            assert self.held(rig, driver, folder).evidence["tables"] == "3"
            db.execute("SET lock_timeout = 100")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                db.execute('INSERT INTO "Odd one".part VALUES (1)')
            driver.drop(rig.database, key=KEY)
            db.execute('INSERT INTO "Odd one".part VALUES (1)')

    def test_a_user_without_rights_is_refused_before_anything_is_held(self, rig, folder) -> None:
        rig.server.sql(f"CREATE ROLE reader_{rig.name} LOGIN; GRANT SELECT ON rows TO reader_{rig.name}", database=rig.name)
        weak = Database("ledger", DatabaseEngine.POSTGRES, rig.url.replace("bridgehead@", f"reader_{rig.name}@"))
        with pytest.raises(Permanent, match="may not lock"):
            rig.driver().check(weak)
        with pytest.raises(Permanent, match="permission denied"):
            rig.driver().hold(weak, key=KEY, folder=folder, wait_s=0.5, lasts_s=LASTS_S)

    def test_a_server_out_of_reach_is_transient(self, rig) -> None:
        from bridgehead.testing.servers import free_port

        away = Database("ledger", DatabaseEngine.POSTGRES, rig.server.url(rig.name, port=free_port()))
        with pytest.raises(Transient):
            rig.driver().check(away)

    def test_a_dump_that_fails_is_told(self, rig, folder) -> None:
        """The snapshot is gone before pg_dump could take it."""
        driver = rig.driver()
        self.held(rig, driver, folder)
        driver.release(rig.database, key=KEY)
        ours = f"application_name = 'bridgehead point' AND datname = '{rig.name}'"
        rig.server.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")
        with pytest.raises(Permanent, match=r"invalid snapshot identifier|does not exist"):
            self.copied(rig, driver)
        driver.drop(rig.database, key=KEY)

    def test_what_a_killed_controller_left_is_removed_and_not_written_into(self, rig, folder) -> None:
        """Its pg_dump may still be at work when the next one begins."""
        script = SCRIPT.format(made=rig.made(), folder=folder, lasts_s=20.0).partition("input()")[0]
        script += 'driver.release(database, key="k"); driver.copy(database, key="k"); print("copies", flush=True); input()'
        process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert [process.stdout.readline() for _ in range(2)] == [b"held\n", b"copies\n"]
        finally:
            process.kill()
            process.communicate()
        (left,) = Path(folder).iterdir()
        driver = rig.driver()
        self.held(rig, driver, folder)
        driver.release(rig.database, key=KEY)
        copy = self.copied(rig, driver)
        assert not left.exists()
        assert rig.rows(copy) == 0
        driver.drop(rig.database, key=KEY)
        assert not list(Path(folder).iterdir())

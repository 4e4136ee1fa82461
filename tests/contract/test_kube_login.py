"""How the Kubernetes drivers log in, what they refuse, and that no secret is in any text; against the fake API server."""

from __future__ import annotations

import base64
import json
import logging
import traceback

import pytest

from bridgehead.drivers.kubernetes import KubeLogin, KubernetesOptions, KubernetesScheduler
from bridgehead.drivers.kubernetes.api import PODS, KubeApi
from bridgehead.drivers.kubernetes.login import access
from bridgehead.kernel.errors import Permanent, PortError
from bridgehead.ports.scheduler import JobSpec
from bridgehead.testing.certificates import make_certificates
from bridgehead.testing.kube_hooks import SPACE, KubeHooks
from bridgehead.testing.kube_server import TOKEN, FakeCluster
from bridgehead.testing.scheduler_suite import JOB, stamp


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secure(certificates):
    with FakeCluster(certificates=(certificates.ca, certificates.server)) as cluster:
        yield cluster


def kubeconfig(cluster, folder, certificates, *, cluster_entry=None, **user):
    path = folder / "config"
    cluster.kubeconfig(path, **user)
    document = json.loads(path.read_text())
    document["clusters"][0]["cluster"] |= {"certificate-authority": str(certificates.ca)} if cluster_entry is None else cluster_entry
    path.write_text(json.dumps(document))
    return KubeLogin(kubeconfig=str(path), timeout_s=5.0)


def pods(login):
    api = KubeApi(login, namespace="")
    assert api.namespace == SPACE
    return api.all(PODS, labels={}, tried="look")


def b64(path):
    return base64.b64encode(path.read_bytes()).decode()


def test_token_in_the_file(secure, tmp_path, certificates):
    assert pods(kubeconfig(secure, tmp_path, certificates, token=TOKEN)) == []


def test_token_file_is_read_for_each_request_from_beside_the_kubeconfig(secure, tmp_path, certificates):
    (tmp_path / "token").write_text("of yesterday\n".replace(" ", "-"))
    api = KubeApi(kubeconfig(secure, tmp_path, certificates, tokenFile="token"), namespace="")
    with pytest.raises(Permanent, match="401"):
        api.all(PODS, labels={}, tried="look")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    assert api.all(PODS, labels={}, tried="look") == []


def test_client_certificate_by_files_and_inline(secure, tmp_path, certificates):
    client = str(certificates.client)
    assert pods(kubeconfig(secure, tmp_path, certificates, **{"client-certificate": client, "client-key": client})) == []
    inline = {"client-certificate-data": b64(certificates.client), "client-key-data": b64(certificates.client)}
    entry = {"certificate-authority-data": b64(certificates.ca)}
    assert pods(kubeconfig(secure, tmp_path, certificates, cluster_entry=entry, **inline)) == []


def test_a_server_that_is_not_trusted_gets_no_token(secure, tmp_path, certificates):
    with pytest.raises(Permanent, match="not trusted"):
        pods(kubeconfig(secure, tmp_path, certificates, cluster_entry={}, token=TOKEN))
    assert secure.requests == []


def test_service_account_of_a_pod(secure, tmp_path, certificates, monkeypatch):
    host, port = secure.url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "ca.crt").write_bytes(certificates.ca.read_bytes())
    (tmp_path / "namespace").write_text(SPACE)
    assert pods(KubeLogin(service_account=str(tmp_path))) == []


def test_neither_kubeconfig_nor_pod(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(Permanent, match="this is no pod"):
        access(KubeLogin())


@pytest.mark.parametrize(
    ("user", "cluster_entry", "match"),
    [
        ({"exec": {"command": "aws"}}, None, "uses exec: a program would have to be run"),
        ({"auth-provider": {"name": "gcp"}}, None, "uses auth-provider"),
        ({"username": "root", "password": "hunter2"}, None, "passwords were taken out"),
        ({"as": "admin"}, None, "uses as"),
        ({"token": TOKEN}, {"insecure-skip-tls-verify": True}, "may be anyone"),
        ({"token": TOKEN}, {"proxy-url": "http://127.0.0.1:1"}, "proxies are not supported"),
        ({"token": TOKEN}, {"tls-server-name": "x"}, "another name"),
        ({"token": TOKEN}, {"server": "http://192.0.2.1"}, "in the clear"),
        ({"token": TOKEN}, {"server": "unix:/x"}, "names no server"),
        ({"client-certificate-data": "%%"}, None, "not base64"),
        ({"client-key": "/nowhere/key"}, None, "No such file"),
        ({"client-certificate-data": "aGVsbG8="}, None, "needs its key"),
    ],
)
def test_what_is_refused_is_named_and_holds_no_secret(secure, tmp_path, certificates, user, cluster_entry, match):
    with pytest.raises(Permanent, match=match) as caught:
        access(kubeconfig(secure, tmp_path, certificates, cluster_entry=cluster_entry, **user))
    text = "".join(traceback.format_exception(caught.value))
    assert caught.value.subject in (str(tmp_path / "config"), "/nowhere/key")
    assert TOKEN not in text
    assert "hunter2" not in text


@pytest.mark.parametrize("content", ["[", f"users: [{{name: x, user: {{token: {TOKEN}}}", "[]", "{}", "current-context: gone"])
def test_what_is_no_kubeconfig(tmp_path, content):
    (tmp_path / "config").write_text(content)
    with pytest.raises(Permanent) as caught:
        access(KubeLogin(kubeconfig=str(tmp_path / "config")))
    assert TOKEN not in "".join(traceback.format_exception(caught.value))


def test_a_renewed_kubeconfig_is_read_after_a_refusal(secure, tmp_path, certificates):
    api = KubeApi(kubeconfig(secure, tmp_path, certificates, token="of-yesterday"), namespace="")
    with pytest.raises(Permanent, match="401"):
        api.all(PODS, labels={}, tried="look")
    kubeconfig(secure, tmp_path, certificates, token=TOKEN)
    assert api.all(PODS, labels={}, tried="look") == []


def test_a_log_in_that_is_not_there_is_an_error_of_the_calls_alone(tmp_path):
    options = KubernetesOptions(login=KubeLogin(kubeconfig=str(tmp_path / "none")))
    driver = KubernetesScheduler("site-a", options)
    with pytest.raises(Permanent, match="No such file"):
        driver.observe(JOB)


def test_another_context_can_be_named(secure, tmp_path, certificates):
    login = kubeconfig(secure, tmp_path, certificates, token=TOKEN)
    with pytest.raises(Permanent, match="no context 'other'"):
        access(KubeLogin(kubeconfig=login.kubeconfig, context="other"))
    assert access(KubeLogin(kubeconfig=login.kubeconfig, context="fake")).server == secure.url


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "ünïcode", "\x07"])
def test_a_token_that_is_none_is_not_shown(secure, tmp_path, certificates, token):
    with pytest.raises(Permanent) as caught:
        pods(kubeconfig(secure, tmp_path, certificates, token=token))
    assert token not in "".join(traceback.format_exception(caught.value))


class TestSecretsOfJobs(KubeHooks):
    SPEC = JobSpec(name=JOB, command=("sleeps", "$(HOME)", "$$", "$PATH"), env={"API_KEY": "s3cr$et-(VALUE)"}, workdir="/data")

    def test_the_environment_of_a_job_is_in_a_secret_that_goes_with_it(self, scheduler, caplog):
        caplog.set_level(logging.DEBUG)
        driver = self.make(env={"SITE": "it costs $(5)"})
        driver.start(self.SPEC, stamp=stamp())
        self.advance(2.0)
        given = list(self.cluster.nodes.environments.values())
        assert given == [{"API_KEY": "s3cr$et-(VALUE)", "SITE": "it costs $(5)"}]
        everything = json.dumps([one for one in self.cluster.store.everything() if one["kind"] != "Secret"])
        assert "s3cr$et" not in everything
        assert "s3cr$et" not in caplog.text
        [container] = self.jobs()[0]["spec"]["template"]["spec"]["containers"]
        assert container["command"] == ["sleeps", "$$(HOME)", "$$$$", "$$PATH"]
        assert container["workingDir"] == "/data"
        self.cluster.store.delete("Job", SPACE, self.jobs()[0]["metadata"]["name"], {"propagationPolicy": "Background"})
        self.advance(1.0)
        assert self.cluster.store.all("Secret", SPACE) == []

    def test_a_secret_that_is_refused_is_not_shown(self, scheduler):
        self.cluster.forbidden = {"secrets"}
        with pytest.raises(PortError) as caught:
            scheduler.start(self.SPEC, stamp=stamp())
        assert "s3cr$et" not in "".join(traceback.format_exception(caught.value))
        self.advance(5.0)
        assert self.pods() == []
        self.cluster.forbidden = set()
        scheduler.start(self.SPEC, stamp=stamp())
        self.advance(2.0)
        self.running(scheduler)

    def test_rights_that_lack_are_named(self, scheduler):
        self.cluster.forbidden = {"jobs"}
        with pytest.raises(Permanent, match="jobs is forbidden"):
            scheduler.observe(JOB)

"""Who may see the page: the owner, on loopback or by the token; under no other name, from no other site."""

import stat

import pytest
from aiohttp import HttpVersion, HttpVersion10, HttpVersion11, web
from aiohttp.test_utils import make_mocked_request

from node.observe.access import Access, access_of, kept_token
from tests.own_data import told

TOKEN = "0123456789abcdef" * 4
LOCAL = Access("127.0.0.1", None, "http://127.0.0.1:9001/")
FAR = Access("ward.example", TOKEN, "http://ward.example:9001/")


def request(host: str = "127.0.0.1:9001", **headers: str):
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return make_mocked_request("GET", "/v1/status", headers={**({"Host": host} if host else {}), **named})


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9001", "localhost", "LOCALHOST:80", "[::1]:9001", "127.9.9.9:1", "[::1"]
)
def test_on_loopback_its_owner_needs_nothing(host):
    LOCAL.check(request(host))


@pytest.mark.parametrize("host", ["evil.example:9001", "127.0.0.1.evil.example", "10.0.0.7:9001", ""])
def test_a_name_that_is_not_this_nodes_is_refused_as_a_rebound_one_is(host):
    with pytest.raises(web.HTTPMisdirectedRequest):
        LOCAL.check(request(host))
    with pytest.raises(web.HTTPMisdirectedRequest):
        LOCAL.check_address(request(host))


def test_the_page_of_another_site_is_refused_and_its_own_is_not():
    for site in ("cross-site", "same-site"):
        with pytest.raises(web.HTTPForbidden):
            LOCAL.check(request(Sec_Fetch_Site=site))
    for site in ("same-origin", "none"):  # none: an address that was typed
        LOCAL.check(request(Sec_Fetch_Site=site))


HERE = {"host": "127.0.0.1:9001", "remote": "127.0.0.1", "version": HttpVersion11}


def asked(access: Access, host: str, remote: str, version: HttpVersion, **headers: str) -> None:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    made = make_mocked_request("GET", "/v1/own", headers={"Host": host, **named}, version=version)
    access.check_here(made.clone(remote=remote))


@pytest.mark.parametrize("at", ["127.0.0.1", "::1", "127.8.8.8"])
def test_what_is_secret_is_shown_to_the_owner_on_this_machine(at):
    asked(LOCAL, **{**HERE, "remote": at, "host": "localhost:9001"})
    asked(FAR, **HERE, Authorization=f"Bearer {TOKEN}")


@pytest.mark.parametrize(
    "other",
    [
        {"remote": "10.0.0.9"},
        {"remote": "::ffff:10.0.0.9"},
        {"remote": ""},
        {"version": HttpVersion10},
        *(
            {name: "10.0.0.9"}
            for name in ("X_Forwarded_For", "x_forwarded_host", "Forwarded", "Via", "X_Real_IP")
        ),
    ],
    ids=str,
)
def test_what_is_secret_is_shown_to_nobody_else_and_to_no_proxy(other):
    with pytest.raises(web.HTTPForbidden, match="Forbidden"):
        asked(LOCAL, **{**HERE, **other})
    with pytest.raises(web.HTTPForbidden, match="Forbidden"):
        asked(FAR, **{**HERE, **other}, Authorization=f"Bearer {TOKEN}")


def test_what_is_secret_needs_the_token_too_and_a_name_of_this_machine():
    with pytest.raises(web.HTTPUnauthorized):
        asked(FAR, **HERE)
    with pytest.raises(web.HTTPForbidden):
        asked(FAR, **{**HERE, "host": "ward.example:9001"}, Authorization=f"Bearer {TOKEN}")


@pytest.mark.parametrize(
    "given", ["", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}0", "Bearer é"]
)
def test_off_loopback_nothing_but_the_token_opens(given):
    headers = {"Authorization": given} if given else {}
    with pytest.raises(web.HTTPUnauthorized):
        FAR.check(request("ward.example:9001", **headers))


def test_off_loopback_the_token_opens_through_a_tunnel_too_and_the_page_without_it_shows_nothing():
    for host in ("ward.example:9001", "localhost:8080"):
        FAR.check(request(host, Authorization=f"Bearer {TOKEN}"))
    FAR.check_address(request("ward.example"))


@pytest.mark.parametrize(
    ("endpoint", "bound", "asks"),
    [
        ("127.0.0.1:9001", "127.0.0.1:9001", False),
        ("[::1]:9001", "[::1]:9001", False),
        ("10.0.0.7:9001", "10.0.0.7:9001", True),
        ("ward.example:9001", "127.0.1.1:9001", True),
        ("127.0.0.1:9001", "10.0.0.7:9001", True),
    ],
)
def test_a_token_is_asked_for_unless_nobody_else_can_come(endpoint, bound, asks):
    made: list[str] = []
    access = access_of(endpoint, bound, f"http://{endpoint}", lambda: made.append(TOKEN) or TOKEN)
    assert (access.token, made) == ((TOKEN, [TOKEN]) if asks else (None, []))
    assert access.url == f"http://{endpoint}/"


def test_the_token_is_told_on_a_terminal_alone(tmp_path):
    file = tmp_path / "page.token"
    assert FAR.shown(file, on_terminal=True) == f"http://ward.example:9001/#token={TOKEN}"
    assert FAR.shown(file, on_terminal=False) == f"http://ward.example:9001/ (its token: {file})"
    assert FAR.shown(None, on_terminal=False).endswith("/ (give --page-token FILE to look at it)")
    assert LOCAL.shown(file, on_terminal=True) == LOCAL.shown(file, on_terminal=False) == LOCAL.url


def test_a_token_is_made_once_and_its_owner_alone_can_read_it(tmp_path):
    file = tmp_path / "page.token"
    token = kept_token(file)
    assert kept_token(file) == token == file.read_text().strip()
    assert len(bytes.fromhex(token)) == 32
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_file_that_can_not_be_the_token_s_is_one_line(tmp_path):
    file, nowhere = tmp_path / "page.token", tmp_path / "nowhere" / "page.token"

    def refused(file, line):
        assert told(lambda: kept_token(file)) == f"the token file {file} {line}"

    kept_token(file)
    file.chmod(0o644)
    refused(file, f"can be read by others (mode 0644); run: chmod 600 {file}")
    file.chmod(0o600)
    file.write_text("secret\n")
    refused(file, "does not hold a token: 64 hex digits; delete it, and a new one is made")
    refused(nowhere, "cannot be written: No such file or directory")

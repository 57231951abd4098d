"""Who may see the page: the owner, on loopback or by the token; under no other name, from no other site."""

import stat

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from node.errors import ConfigError
from node.observe.access import Access, access_of, kept_token

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


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_the_page_of_another_site_is_refused(site):
    with pytest.raises(web.HTTPForbidden):
        LOCAL.check(request(Sec_Fetch_Site=site))


@pytest.mark.parametrize("site", ["same-origin", "none"])
def test_its_own_page_and_an_address_that_was_typed_are_not(site):
    LOCAL.check(request(Sec_Fetch_Site=site))


@pytest.mark.parametrize(
    "given", ["", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}0", "Bearer é"]
)
def test_off_loopback_nothing_but_the_token_opens(given):
    headers = {"Authorization": given} if given else {}
    with pytest.raises(web.HTTPUnauthorized):
        FAR.check(request("ward.example:9001", **headers))


@pytest.mark.parametrize("host", ["ward.example:9001", "localhost:8080"])
def test_off_loopback_the_token_opens_through_a_tunnel_too(host):
    FAR.check(request(host, Authorization=f"Bearer {TOKEN}"))


def test_the_page_without_anything_of_this_node_is_shown_before_the_token():
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

    def token() -> str:
        made.append(TOKEN)
        return TOKEN

    access = access_of(endpoint, bound, f"http://{endpoint}", token)

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


def test_a_token_that_others_can_read_is_refused(tmp_path):
    file = tmp_path / "page.token"
    kept_token(file)
    file.chmod(0o644)
    with pytest.raises(ConfigError) as error:
        kept_token(file)
    assert (
        str(error.value) == f"the token file {file} can be read by others (mode 0644); run: chmod 600 {file}"
    )


def test_a_file_that_holds_no_token_is_refused(tmp_path):
    file = tmp_path / "page.token"
    file.touch(0o600)
    file.write_text("secret\n")
    with pytest.raises(ConfigError) as error:
        kept_token(file)
    assert str(error.value) == (
        f"the token file {file} does not hold a token: 64 hex digits; delete it, and a new one is made"
    )


def test_a_token_that_can_not_be_written_is_one_line(tmp_path):
    file = tmp_path / "nowhere" / "page.token"
    with pytest.raises(ConfigError) as error:
        kept_token(file)
    assert str(error.value) == f"the token file {file} cannot be written: No such file or directory"

"""An endpoint in canonical form is the same host and port to every parser, for any text."""

from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from protocol.wire.endpoints import canonical, is_canonical, split_endpoint

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
HOSTS = st.one_of(
    st.lists(LABELS, min_size=1, max_size=4).map(".".join),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map(lambda address: f"[{address}]"),
    st.text(max_size=12),
    st.text("aA0.-:[]@/?#%_ \\\t\n", max_size=12),
)
WRITTEN = st.one_of(
    st.builds(lambda host, port: f"{host}:{port}", HOSTS, st.integers(-1, 70000)),
    st.builds(
        lambda host, port, more: f"{host}:{port}{more}", HOSTS, st.integers(1, 65535), st.text(max_size=6)
    ),
    st.text(max_size=40),
)


@given(WRITTEN)
def test_whatever_is_accepted_is_a_host_and_a_port_to_every_parser(written):
    endpoint = canonical(written)
    if endpoint is None:
        assert not is_canonical(written)
        return
    assert canonical(endpoint) == endpoint
    host, port = split_endpoint(endpoint)
    assert endpoint == (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    for scheme in ("http", "https"):
        text = f"{scheme}://{endpoint}/v1/link"
        url, split = URL(text), urlsplit(text)
        assert (url.scheme, url.raw_host, url.port, url.raw_path_qs) == (scheme, host, port, "/v1/link")
        assert (url.user, url.password, url.fragment) == (None, None, "")
        assert (split.scheme, split.hostname, split.port, split.path) == (scheme, host, port, "/v1/link")
        assert (split.query, split.fragment, split.username, split.password) == ("", "", None, None)

"""Where a node listens: addresses that can be bound, are in use, or do not exist."""

import pytest

from node.net.incoming.listening import check_names, endpoint_of, listen, listen_where_possible
from node.system.addresses import PeerAddress
from node.system.errors import ConfigError, UserError


def test_any_free_port_is_announced_with_its_number_and_one_in_use_is_a_failure_at_run_time():
    with listen("127.0.0.1:0") as listener:
        port = listener.getsockname()[1]
        assert endpoint_of(listener, "127.0.0.1:0") == f"127.0.0.1:{port}"
        assert endpoint_of(listener, None) == f"127.0.0.1:{port}"
    with listen("127.0.0.1:0") as listener:
        with pytest.raises(UserError, match="address already in use; end what uses the port") as caught:
            listen(endpoint_of(listener, None))
        assert caught.value.status == 1


def test_the_first_entry_that_can_be_bound_is_taken_or_the_one_pinned_to_ones_own_key():
    with listen("127.0.0.1:0") as first, listen("127.0.0.1:0") as second:
        endpoints = [endpoint_of(listener, None) for listener in (first, second)]
        second.close()
        with listen_where_possible([PeerAddress(endpoint, None) for endpoint in endpoints], None) as listener:
            assert endpoint_of(listener, None) == endpoints[1]
    mine, theirs = b"m" * 32, b"t" * 32
    peers = [PeerAddress(endpoints[0], theirs), PeerAddress(endpoints[1], mine)]
    with listen_where_possible(peers, mine) as listener:
        assert endpoint_of(listener, None) == endpoints[1]
    with listen_where_possible(peers, b"x" * 32) as listener:
        assert endpoint_of(listener, None) not in endpoints


def test_a_host_that_does_not_exist_is_named():
    with pytest.raises(ConfigError, match=r"--peers no-such-host\.invalid:9001: the host .* does not exist"):
        check_names("--peers", ["127.0.0.1:1", "no-such-host.invalid:9001"])

"""What is set aside as slow is there."""


def test_what_is_named_as_slow_is_a_test(no_tests: set[str]):
    assert not no_tests

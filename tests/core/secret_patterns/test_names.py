"""Names of secrets, and names that only look like one."""

from __future__ import annotations

import pytest

from sayso.core.secret_patterns.names import Secrecy, looks_random, secrecy


@pytest.mark.proves("H8")
@pytest.mark.parametrize(
    "name",
    [
        "password", "PASSWORD", "dbPassword", "db-passwd", "user_password_2", "new_password",
        "password_confirmation", "pwd",
        "secret", "clientSecret", "secret_value", "secretAccessKey", "token", "accessToken", "refresh_token",
        "id_token",
        "csrf_token", "X-Api-Key", "apikey", "APIKEY", "api_key_value", "--api-key", "access_key_id", "signing_key",
        "ssh_key",
        "private_key", "openai_key", "service_role_key", "account_key", "credentials", "aws_creds", "Authorization",
        "Set-Cookie", "connectionString", "recovery_codes", "seed_phrase", "jwt", "pin", "otp", "password_hash", "psk",
        "vault_secret_id", "bearer", "storepass", "db_pass", "_authToken", "spring.datasource.password",
    ],
)  # fmt: skip
def test_a_name_of_a_secret_is_known_in_any_spelling(name: str) -> None:
    assert secrecy(name) is Secrecy.SECRET


@pytest.mark.proves("H8")
@pytest.mark.parametrize(
    "name",
    [
        "max_tokens", "maxTokens", "total_tokens", "token_count", "tokenizer", "tokenize", "token_type",
        "next_page_token",
        "eos_token", "primary_key", "foreignKey", "sort_key", "cache_key", "public_key", "keyboard", "monkey",
        "keyword", "hotkey",
        "author", "authors", "authority", "secretary", "password_policy", "password_min_length", "secret_name",
        "auth_method",
        "private_key_path", "token_file", "cookie_policy", "compass", "bypass", "passed", "passenger", "pattern",
        "path",
        "is_secret", "has_password", "session", "session_id", "spin", "pinned", "", "-", "token_url", "first_pass",
        "key_id",
    ],
)  # fmt: skip
def test_a_name_that_only_holds_the_letters_of_one_is_none(name: str) -> None:
    assert secrecy(name) is Secrecy.NONE


@pytest.mark.proves("H8")
@pytest.mark.parametrize("name", ["pass_", "pw", "pat", "auth"])
def test_a_name_that_source_text_uses_otherwise_is_one_in_data(name: str) -> None:
    assert secrecy(name) is Secrecy.CODE


@pytest.mark.proves("H8")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("b7byTuOqMS4z1nATbQs1", True), ("f3b1c9d0e2a4b6c8d0", True), ("Enter", False), ("user:12:page:3", False),
        ("uploads/2026/photo1.png", False), ("6f1c1a0e-8f0e-4f5c-9d53-0123456789ab", False), ("correct horse", False),
    ],
)  # fmt: skip
def test_the_value_of_a_name_that_says_little_is_judged_by_its_looks(value: str, *, expected: bool) -> None:
    assert secrecy("key") is Secrecy.WEAK
    assert looks_random(value) is expected

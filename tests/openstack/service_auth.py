"""How services of the test cloud log in to each other and check tokens, in their configuration's words."""

from __future__ import annotations

from tests.real.cloud import PASSWORD


def login(user: str, auth_url: str) -> str:
    """Options of a password login in the project ``service``."""
    return (
        f"auth_type = password\nauth_url = {auth_url}\nusername = {user}\npassword = {PASSWORD}\n"
        "user_domain_name = Default\nproject_name = service\nproject_domain_name = Default\n"
    )


def token_check(user: str, auth_url: str) -> str:
    """The section ``[keystone_authtoken]``."""
    roles = "service_token_roles = service\nservice_token_roles_required = true\n"
    return f"[keystone_authtoken]\nwww_authenticate_uri = {auth_url}\n{roles}{login(user, auth_url)}"

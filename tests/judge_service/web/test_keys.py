"""Keys as admins see them, and the audit log: who did what, without secrets."""

import re

import pytest

from judge_service.domain.principal import Role
from judge_service.security.keys import issue
from tests.judge_service.annotation.projects import a_set
from tests.judge_service.web.conftest import words


async def test_keys_are_for_admins(signed_in) -> None:
    for path in ("/keys", "/audit"):
        assert (await signed_in("Lea", Role.LEAD).get(path)).status_code == 403
        assert (await signed_in("Root", Role.ADMIN).get(path)).status_code == 200
    assert (await signed_in("Lea", Role.LEAD).post("/keys", {"name": "x", "role": "admin"})).status_code == 403


async def test_a_key_is_shown_once_and_works(signed_in, service, connect) -> None:
    root = signed_in("Root", Role.ADMIN)
    page = await root.post("/keys", {"name": "nightly <b>", "role": "score"})
    assert page.status_code == 200
    assert page.headers["cache-control"] == "no-store"
    assert "Copy it now. It cannot be shown again." in words(page)
    (key,) = re.findall(r"jk_[a-z0-9]{12}_[A-Za-z0-9]{40}", page.text)
    client = connect(None)
    used = await client.get("/v1/rubrics", headers={"Authorization": f"Bearer {key}"})
    assert used.status_code == 200
    again = await root.get("/keys")
    assert key not in again.text
    assert key.rpartition("_")[2] not in again.text
    assert f'nightly &lt;b&gt;<span class="sub">{key.split("_")[1]}</span>' in again.text
    assert key[-4:] in again.text
    revoked = await root.post(f"/keys/{key.split('_')[1]}/revoke")
    assert revoked.status_code == 303
    refused = await client.get("/v1/rubrics", headers={"Authorization": f"Bearer {key}"})
    assert refused.status_code == 401
    assert "Revoked" in words(await root.get("/keys"))
    entries = service.store.audit.entries()
    assert [one.what for one in entries] == ["revoked a key", "made a key"]
    assert entries[0].object == f"{key.split('_')[1]} (nightly <b>, score)"
    assert entries[0].by == f"user:{root.user.id}"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": "", "role": "score"}, "name"),
        ({"name": "a\nb", "role": "score"}, "name"),
        ({"name": "x" * 121, "role": "score"}, "name"),
        ({"name": "ok", "role": "owner"}, "role"),
        ({"name": "ok"}, "role"),
    ],
)
async def test_what_is_wrong_with_a_new_key_stands_at_its_field(signed_in, service, fields, field) -> None:
    before = len(service.store.keys.all())
    page = await signed_in("Root", Role.ADMIN).post("/keys", fields)
    assert page.status_code == 422
    assert re.findall(r'<li><a href="#(\w+)">', page.text) == [field]
    assert "No key was made." in words(page)
    assert len(service.store.keys.all()) == before


async def test_what_changes_keys_people_judges_sets_and_projects_is_logged(signed_in, service, connect) -> None:
    a_set(service.store, 3)
    admin = connect(Role.ADMIN)
    made = (await admin.post("/v1/keys", json={"name": "ci", "role": "score"})).json()
    await admin.post(f"/v1/keys/{made['id']}/revoke")
    invited = (await admin.post("/v1/invitations", json={"role": "annotate", "name": "Bob"})).json()
    await admin.post(f"/v1/invitations/{invited['id']}/revoke")
    ann = signed_in("Ann", Role.ANNOTATE).user
    await admin.post(f"/v1/users/{ann.id}/disable")
    await admin.post(f"/v1/users/{ann.id}/enable")
    judge = {"name": "careful", "backend": "baseline", "model": "longer"}
    await admin.put("/v1/judges/careful", json=judge)
    await admin.delete("/v1/judges/careful")
    project = (await admin.post("/v1/projects", json={"name": "P", "set": "pairs@1"})).json()
    await admin.post(f"/v1/projects/{project['id']}/close")
    await admin.post(f"/v1/projects/{project['id']}/reopen")
    assert (await admin.post("/v1/sets/pairs@1/freeze")).status_code == 200
    assert (await admin.post("/v1/sets/pairs@1/freeze")).status_code == 200
    assert (await admin.post("/v1/keys/aaaaaaaaaaaa/revoke")).status_code == 404
    entries = service.store.audit.entries()[::-1]
    assert [(one.what, one.object) for one in entries] == [
        ("made a key", f"{made['id']} (ci, score)"),
        ("revoked a key", f"{made['id']} (ci, score)"),
        ("invited a person", f"{invited['id']} (Bob as annotate)"),
        ("revoked an invitation", invited["id"]),
        ("disabled a person", f"{ann.id} (Ann)"),
        ("enabled a person", f"{ann.id} (Ann)"),
        ("set a judge", "careful"),
        ("removed a judge", "careful"),
        ("opened a project", f"{project['id']} (P)"),
        ("closed a project", f"{project['id']} (P)"),
        ("opened a project again", f"{project['id']} (P)"),
        ("froze a set", "pairs@1"),
    ]
    page = await signed_in("Root", Role.ADMIN).get("/audit")
    assert "jk_" not in page.text
    assert "ji_" not in page.text
    assert made["key"][-40:] not in page.text
    assert "test admin" in words(page)


async def test_the_log_is_read_page_by_page(signed_in, service) -> None:
    for number in range(205):
        service.store.audit.add("user:aaaaaaaaaaaa", "Lea", "froze a set", f"pairs@{number}")
    root = signed_in("Root", Role.ADMIN)
    page, seen = await root.get("/audit"), []
    while True:
        seen += re.findall(r">(pairs@\d+)<", page.text)
        older = re.search(r'href="(/audit\?before=\d+)"', page.text)
        if older is None:
            break
        page = await root.get(older[1])
    assert seen == [f"pairs@{number}" for number in reversed(range(205))]
    assert "Nothing older is in the log." in words(await root.get("/audit?before=1"))
    key, _ = issue("unused", Role.SCORE)
    assert (await root.post(f"/keys/{key.id}/revoke")).status_code == 404

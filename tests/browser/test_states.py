"""When there is nothing, not yet anything, or something wrong; and ids that a browser cannot hold as numbers."""

import re
import shutil

import numpy as np
import pytest

from tessella.store import Store

from .conftest import Service, serving
from .test_console import find, label, listed, settle


def test_empty_store(page, stores, accessible):
    with serving(stores / "empty.db", "--writable") as service:
        page.goto(service.address)
        page.get_by_text("This store is empty").wait_for()
        accessible(page)


def test_what_was_tried_for_the_plan(page, stores, accessible):
    with serving(stores / "planned.db") as service:
        page.goto(f"{service.address}/#user=17")
        settle(page, listed(service, user=17))
        page.locator(".plan summary").click()
        page.get_by_label("Settings tried for the plan").get_by_text("queries/s").wait_for()
        accessible(page)


def test_what_tiles_believe(wide, stores, accessible):
    with serving(stores / "tiles.db") as service:
        wide.goto(f"{service.address}/#user=17")
        ids = listed(service, user=17)
        settle(wide, ids)
        wide.locator(".row .name button").first.click()
        wide.get_by_text("Its tile").wait_for()
        told = service.ask("POST", "/v1/explain", {"user": 17, "item": ids[0], "k": 10})["tile"]
        wide.locator(".why").get_by_text(f"spread {told['spread']:.3f}, reach {told['reach']:.3f}").first.wait_for()
        accessible(wide)


def test_items_alone_with_odd_ids(wide, tmp_path, accessible):
    ids = ["a/b", "50%", "what?", "#1", "x&y=z", "naïve", "<b>bold</b>", '"quoted"', "a b", "comma, too"]
    random = np.random.default_rng(3)
    with Store.open(tmp_path / "bare.db") as store:
        store.publish(random.normal(size=(len(ids), 8)).astype(np.float32), item_ids=ids, name="bare")
    with serving(tmp_path / "bare.db", "--writable") as service:
        wide.goto(service.address)
        wide.get_by_text("No user selected").wait_for()
        liked = []
        for one in ids[:7]:
            find(wide, "#find-item", one, one)
            liked.append(one)
            settle(wide, listed(service, liked=liked))
        wide.reload()
        settle(wide, listed(service, liked=liked))
        wide.get_by_text("no users with factors").wait_for()
        accessible(wide)
        wide.get_by_label('Edit "quoted"').click()
        label(wide, "Payload (JSON)").fill('{"seen": true}')
        wide.get_by_role("button", name="Save").click()
        wide.get_by_text(re.compile("^Updated")).wait_for()
        assert service.ask("GET", "/v1/items/%22quoted%22")["payload"] == {"seen": True}


def test_unknown_user(page, movies, accessible, picture):
    page.goto(movies.address)
    find(page, "#find-user", "4711")
    failed = page.locator(".state.failed")
    failed.get_by_text("4711").wait_for()
    assert "Not found" in failed.inner_text()
    page.wait_for_timeout(400)
    assert page.locator("#find-user").get_attribute("aria-expanded") == "false"
    accessible(page)
    picture(page, "not-found", "390-light")
    find(page, "#find-user", "17")
    settle(page, listed(movies, user=17))


def test_loading_is_designed(wide, movies):
    held = []

    def hold(request):
        held.append(request)

    wide.route("**/v1/recommend", hold)
    wide.goto(f"{movies.address}/#user=17")
    wide.locator("#lists .bone").first.wait_for()
    wide.locator("#progress").wait_for()
    wide.wait_for_function("() => document.querySelector('#lists').getAttribute('aria-busy') === 'true'")
    held[0].continue_()
    settle(wide, listed(movies, user=17))
    wide.unroute("**/v1/recommend")


def test_read_only(wide, movies):
    wide.goto(f"{movies.address}/#user=17")
    settle(wide, listed(movies, user=17))
    assert not wide.get_by_role("button", name="Add an item").is_visible()
    assert wide.locator(".acts button").count() == 10  # hearts only
    assert "read-only" in wide.locator("#figures").inner_text()


def test_refused_changes_say_why(wide, writable):
    wide.goto(f"{writable.address}/#user=17")
    settle(wide, listed(writable, user=17))
    wide.keyboard.press("n")
    wide.get_by_role("button", name="Add", exact=True).click()
    wide.get_by_text("Choose at least one similar item").wait_for()
    wide.get_by_label("As if user 17 liked it").check()
    wide.get_by_role("button", name="Add", exact=True).click()
    wide.get_by_text("The item needs an id.").wait_for()
    label(wide, "Id").fill("not a number")
    wide.get_by_role("button", name="Add", exact=True).click()
    wide.get_by_text("Ids holds strings, but the ids of items are integers.").wait_for()
    label(wide, "Id").fill("17")
    wide.get_by_role("button", name="Add", exact=True).click()
    wide.get_by_text("There is already an item with id 17").wait_for()
    label(wide, "Year").fill("soon")
    wide.get_by_role("button", name="Add", exact=True).click()
    wide.get_by_text('Year is "soon", but must be a number.').wait_for()
    wide.keyboard.press("Escape")
    wide.locator("dialog").wait_for(state="detached")
    assert writable.ask("GET", "/v1/stats")["n_items"] == 3000


def test_changes_of_others_show(wide, writable):
    wide.goto(f"{writable.address}/#user=17")
    first = listed(writable, user=17)
    settle(wide, first)
    writable.ask("DELETE", "/v1/items", {"ids": [int(first[0])]})
    settle(wide, listed(writable, user=17))
    wide.locator("#figures").get_by_text("2,999").wait_for()


def test_service_goes_and_comes_back(wide, stores, tmp_path):
    shutil.copy(stores / "movies.db", tmp_path / "movies.db")
    service = Service(tmp_path / "movies.db")
    port = service.port
    wide.goto(f"{service.address}/#user=17")
    settle(wide, listed(service, user=17))
    service.stop()
    wide.get_by_role("alert").get_by_text("The service does not answer").wait_for()
    service.start(port)
    try:
        wide.locator("#banner").wait_for(state="hidden")
        find(wide, "#find-user", "18")
        settle(wide, listed(service, user=18))
    finally:
        service.stop()


def test_tokens(wide, stores, tmp_path, accessible):
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read = {'r' * 20}\nwrite = {'w' * 20}\n")
    tokens.chmod(0o600)
    with serving(stores / "movies.db", "--tokens", str(tokens)) as service:
        wide.goto(f"{service.address}/#user=17")
        label(wide, "Token").fill("wrong")
        accessible(wide)
        wide.get_by_role("button", name="Continue").click()
        wide.wait_for_function("() => document.querySelector('dialog input')?.value === ''")
        label(wide, "Token").fill("r" * 20)
        wide.get_by_role("button", name="Continue").click()
        wide.locator("#lists .row").first.wait_for()
        assert "rrrr" not in wide.url


def test_shortcuts_can_be_read_and_switched_off(wide, movies, accessible):
    wide.goto(movies.address)
    wide.get_by_text("No user selected").wait_for()
    wide.keyboard.press("?")
    wide.get_by_role("heading", name="Keyboard shortcuts").wait_for()
    accessible(wide)
    wide.get_by_label("Enable single-key shortcuts").uncheck()
    wide.keyboard.press("Escape")
    wide.keyboard.press("l")
    assert wide.evaluate("document.activeElement.id") != "find-item"


@pytest.mark.parametrize("offset", [3, 17])
def test_ids_beyond_what_numbers_hold(wide, stores, tmp_path, offset):
    shutil.copy(stores / "large.db", tmp_path / "large.db")
    user = str(2**60 + offset)
    with serving(tmp_path / "large.db", "--writable") as service:
        wide.goto(service.address)
        find(wide, "#find-user", user, re.compile(user))
        ids = listed(service, user=user)
        settle(wide, ids)
        assert all(int(one) > 2**53 for one in ids)
        wide.locator("#lists .row").first.get_by_role("button", name=re.compile("^Like ")).click()
        ids = listed(service, user=user, liked=[ids[0]])
        settle(wide, ids)
        wide.locator(".row .name button").first.click()
        wide.locator(".row .why").first.get_by_text(ids[0]).first.wait_for()
        wide.locator("#lists .row").first.get_by_role("button", name=re.compile("^Edit ")).click()
        label(wide, "Title").fill("Exactly this one")
        wide.get_by_role("button", name="Save").click()
        wide.get_by_text(re.compile("^Updated Exactly this one")).wait_for()
        assert service.ask("GET", f"/v1/items/{ids[0]}")["attributes"]["title"] == "Exactly this one"
        wide.get_by_label("Remove Exactly this one").click()
        wide.get_by_role("button", name="Remove", exact=True).click()
        settle(wide, listed(service, user=user, liked=[str(one["id"]) for one in likes(service, wide)]))
        assert service.ask("GET", "/v1/stats")["n_items"] == 399


def likes(service, page):
    """What the address says is liked, as the service has it."""
    found = re.findall(r"liked=(\d+)", page.url)
    return service.ask("GET", f"/v1/items?ids={','.join(found)}")["items"]

"""What people do in the console, each at two widths and in two themes, held against the service's own answers."""

import json
import re

import pytest

EVERY = ["title", "genres", "year", "in_stock"]


def shown(page, place="#lists"):
    """The ids on the page, in order."""
    return page.locator(f"{place} .row").evaluate_all("rows => rows.map(row => row.dataset.id)")


def listed(service, **question):
    """The ids that the service recommends."""
    (answer,) = service.ask("POST", "/v1/recommend", question)["lists"]
    return [str(one) for one in answer["ids"]]


def settle(page, wanted, place="#lists"):
    """Wait until the page shows a list."""
    page.wait_for_function(
        "([place, wanted]) => JSON.stringify([...document.querySelectorAll(place + ' .row')].map(row => row.dataset.id)) === wanted",
        arg=[place, json.dumps(wanted, separators=(",", ":"), ensure_ascii=False)],
    )
    assert shown(page, place) == wanted


def find(page, field, text, pick=None):
    """Type into a field with suggestions, and take one."""
    page.locator(field).fill(text)
    if pick is None:
        page.locator(field).press("Enter")
    else:
        page.get_by_role("option", name=pick).first.click()


def open_tuning(page):
    """Unfold filters and boosts, which are folded on a phone."""
    if not page.locator("#tune").evaluate("tune => tune.open"):
        page.locator("#tune > summary").click()


def label(page, name):
    """A field by its label: of the dialog, if one is open."""
    dialog = page.locator("dialog")
    return (dialog if dialog.count() else page).get_by_label(name, exact=True)


def test_catalogue(page, movies, accessible, picture):
    stats = movies.ask("GET", "/v1/stats")
    page.goto(movies.address)
    figures = page.locator("#figures")
    figures.get_by_text("3,000", exact=True).wait_for()
    assert "600" in figures.inner_text()
    assert stats["plan"] in figures.inner_text()
    assert "kB" in figures.inner_text()
    assert page.locator("#generation").input_value() == "autumn"
    assert page.locator("#version").inner_text() == f"version {stats['version']}"
    page.get_by_text("No user selected").wait_for()
    accessible(page)
    picture(page, "empty", "390-dark")


def test_a_user_by_id(page, movies, accessible):
    page.goto(movies.address)
    page.keyboard.press("/")
    find(page, "#find-user", "17")
    settle(page, listed(movies, user=17))
    page.get_by_text("Has seen").wait_for()
    assert "user=17" in page.url
    page.reload()
    settle(page, listed(movies, user=17))
    page.get_by_label("Clear user").click()
    page.get_by_text("No user selected").wait_for()
    page.get_by_role("button", name=re.compile("^User 2 ")).click()
    settle(page, listed(movies, user=2))
    accessible(page)


def test_suggestions_by_keyboard(page, movies):
    page.goto(movies.address)
    page.get_by_text("No user selected").wait_for()
    page.keyboard.press("/")
    page.keyboard.type("59")
    page.get_by_role("option", name="590").wait_for()
    options = page.locator(".options li").evaluate_all("found => found.map(one => one.firstChild.textContent)")
    assert all(one.startswith("59") for one in options)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    chosen = page.locator("#find-user").get_attribute("aria-activedescendant")
    assert page.locator(f"#{chosen}").inner_text().startswith(options[1])
    page.keyboard.press("Enter")
    settle(page, listed(movies, user=int(options[1])))


def test_somebody_new_by_likes(page, movies, accessible, picture):
    page.goto(movies.address)
    find(page, "#find-item", "The Quiet Garden", "The Quiet Garden")
    page.get_by_label("Unlike The Quiet Garden", exact=True).first.wait_for()
    (first,) = [one["id"] for one in movies.ask("GET", "/v1/items?limit=1&query=The+Quiet+Garden")["items"]]
    settle(page, listed(movies, liked=[first]))
    second = shown(page)[2]
    page.locator("#lists .row").nth(2).get_by_role("button", name=re.compile("^Like ")).click()
    settle(page, listed(movies, liked=[first, int(second)]))
    assert second not in shown(page)
    accessible(page)
    picture(page, "likes", "1440-dark")
    page.get_by_text("Clear all").click()
    page.get_by_text("No user selected").wait_for()


def test_why(page, movies, accessible, picture):
    page.goto(f"{movies.address}/#user=17")
    ids = listed(movies, user=17)
    settle(page, ids)
    told = movies.ask("POST", "/v1/explain", {"user": 17, "item": ids[0], "k": 10})
    title = page.locator(".row .name button").first
    title.focus()
    page.keyboard.press("Enter")
    why = page.locator(".row .why").first
    why.get_by_text(told["sentences"][0]).wait_for()
    assert title.get_attribute("aria-expanded") == "true"
    measures = why.locator(".measure").evaluate_all(
        "all => all.map(one => [one.children[0].textContent, one.children[2].textContent])"
    )
    assert ["Partial score", f"{told['slots']['partial_score']:.3f}"] in measures
    assert ["Exact score", f"{told['parts']['factors']:.3f}"] in measures
    slots = [name for name, _ in measures if name.startswith("Slot ")]
    assert len(slots) == len(told["slots"]["shared"]) > 0
    accessible(page)
    picture(page, "why", "390-light", "390-dark", "1440-light", "1440-dark")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('.row').dataset.id") == ids[1]


def test_why_not(page, movies):
    page.goto(f"{movies.address}/#user=17")
    settle(page, listed(movies, user=17))
    seen = movies.ask("GET", "/v1/users/17")["seen"][0]
    title = movies.ask("GET", f"/v1/items/{seen}")["attributes"]["title"]
    find(page, "#ask-item", str(seen), re.compile(f"^{title}"))
    page.get_by_text("left out by seen").wait_for()


def test_filters(page, movies, accessible, picture):
    page.goto(f"{movies.address}/#user=17")
    settle(page, listed(movies, user=17))
    open_tuning(page)
    page.get_by_role("button", name=re.compile("^Comedy ")).click()
    settle(page, listed(movies, user=17, where={"genres": ["Comedy"]}))
    page.get_by_role("button", name=re.compile("^Drama ")).click()
    settle(page, listed(movies, user=17, where={"genres": ["Comedy", "Drama"]}))
    label(page, "Year from").fill("2000")
    where = {"genres": ["Comedy", "Drama"], "year": {"from": 2000}}
    settle(page, listed(movies, user=17, where=where))
    accessible(page)
    picture(page, "filters", "390-light", "1440-light")
    label(page, "Year from").fill("3000")
    page.get_by_text("No items left").wait_for()
    label(page, "Year from").fill("")
    page.get_by_role("button", name=re.compile("^Drama ")).click()
    settle(page, listed(movies, user=17, where={"genres": ["Comedy"]}))


def test_boosts_change_the_list_as_they_move(page, movies, accessible):
    page.goto(f"{movies.address}/#user=17")
    plain = listed(movies, user=17)
    settle(page, plain)
    open_tuning(page)
    slider = label(page, "Boost popularity")
    most = float(slider.get_attribute("max"))
    lists = set()
    slider.focus()
    for _ in range(25):
        page.keyboard.press("ArrowRight")
        wanted = listed(movies, user=17, boosts={"popularity": float(slider.input_value())})
        settle(page, wanted)
        lists.add(tuple(wanted))
    assert len(lists) > 2
    assert float(slider.input_value()) == pytest.approx(most * 25 / 50)
    assert page.locator("#lists .moved").evaluate_all("all => all.some(one => one.textContent !== '')")
    assert page.locator("#tune-summary").inner_text() == "1 in use"
    page.locator(".row .name button").first.click()
    page.locator(".why .measure").get_by_text("Boost popularity").wait_for()
    accessible(page)
    label(page, "Reset Popularity").click()
    settle(page, plain)


def test_how_many_items_were_never_scored(page, movies):
    page.goto(f"{movies.address}/#user=17")
    (answer,) = movies.ask("POST", "/v1/recommend", {"user": 17})["lists"]
    never = 3000 - answer["scored"]
    page.get_by_text(f"{never:,} of 3,000 items were never scored for this list.").wait_for()
    sample = movies.ask("GET", "/v1/scored?sample=200&k=10")
    picture = page.locator("#looked svg")
    picture.wait_for()
    assert f"median {sample['median']:,.0f}" in picture.get_attribute("aria-label")
    columns = page.locator("#looked .column").get_attribute("d").count("M")
    assert columns == sum(count > 0 for count in sample["counts"])


def test_two_generations(page, movies, accessible, picture):
    page.goto(f"{movies.address}/#user=17")
    settle(page, listed(movies, user=17))
    page.locator("#other").select_option("spring")
    settle(page, listed(movies, user=17), ".two > :first-child")
    settle(page, listed(movies, user=17, generation="spring"), ".two > :last-child")
    common = set(shown(page, ".two > :first-child")) & set(shown(page, ".two > :last-child"))
    assert page.locator("#facts").inner_text().startswith(f"{len(common)} of 10 items in both lists")
    accessible(page)
    picture(page, "compare", "390-light", "1440-dark")
    page.locator("#other").select_option("")
    page.locator("#generation").select_option("spring")
    settle(page, listed(movies, user=17, generation="spring"))
    assert "generation=spring" in page.url


def test_traffic(page, movies, accessible):
    page.goto(f"{movies.address}/#user=17")
    pictures = page.locator("#traffic svg")
    pictures.first.wait_for()
    assert re.search(r"[\d,]+ requests", pictures.first.get_attribute("aria-label"))
    assert re.match(r"Latency now: median [\d.,]+ ms", pictures.last.get_attribute("aria-label"))
    accessible(page)


def test_add_change_and_remove_an_item(page, writable, accessible, picture):
    page.goto(f"{writable.address}/#user=17")
    before = listed(writable, user=17)
    settle(page, before)
    page.get_by_role("button", name="Add an item").click()
    label(page, "Id").fill("9000001")
    label(page, "Title").fill("A film for user 17")
    label(page, "Genres (comma-separated)").fill("Comedy, Drama")
    label(page, "Year").fill("2026")
    best = page.locator("#lists .row .name button").nth(2).inner_text()
    label(page, "Similar items").locator("visible=true").first.fill(best)
    page.locator("dialog").get_by_role("option", name=best).first.click()
    page.locator("dialog").get_by_label(f"Remove {best}").wait_for()
    accessible(page)
    picture(page, "add", "390-dark", "1440-light")
    page.get_by_role("button", name="Add", exact=True).click()
    page.get_by_text(re.compile("^Added A film for user 17")).wait_for()
    after = listed(writable, user=17)
    settle(page, after)
    assert "9000001" in after
    assert "new" in page.locator("[data-id='9000001'] .moved").inner_text()
    kept = writable.ask("GET", "/v1/items/9000001")["attributes"]
    assert kept == {"title": "A film for user 17", "genres": ["Comedy", "Drama"], "year": 2026}
    page.get_by_label("Edit A film for user 17").click()
    label(page, "Title").fill("Another name")
    page.get_by_role("button", name="Save").click()
    page.locator("[data-id='9000001']").get_by_text("Another name").wait_for()
    assert writable.ask("GET", "/v1/items/9000001")["attributes"] == kept | {"title": "Another name"}
    page.get_by_label("Remove Another name").click()
    accessible(page)
    page.get_by_role("button", name="Remove", exact=True).click()
    settle(page, before)
    assert writable.ask("GET", "/v1/stats")["n_items"] == 3000


def test_theme_switch(page, movies, accessible):
    page.goto(movies.address)
    page.get_by_text("No user selected").wait_for()

    def dark():
        return page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(21, 22, 26)"

    was = page.view.endswith("dark")
    assert dark() == was
    page.locator("#theme-button").click()
    assert dark() != was
    accessible(page)
    page.reload()
    assert dark() != was

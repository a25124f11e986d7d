"""Makes the pictures in docs/status_page/: the pages of a front and of an agent, in a real browser.

`python -m tools.status_pictures [FOLDER]`, with Chromium and its driver; the pictures go to FOLDER.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.chromium import NARROW, WIDE, look_at, missing, running_browser
from tests.status_page.stage import Stage, staged

PICTURES: Final = Path(__file__).resolve().parents[1] / "docs" / "status_page"
_HEIGHTS: Final = {WIDE: 2300, NARROW: 1900}
_PATIENCE_S: Final = 30


def shoot(stage: Stage, profile: Path, folder: Path) -> None:
    """Photograph both pages at both widths, in both schemes, once they are live."""
    with running_browser(profile) as browser:
        for name, address in stage.pages.items():
            for width, height in _HEIGHTS.items():
                for scheme in ("light", "dark"):
                    look_at(browser, width, scheme, height)
                    browser.get(address)
                    live = browser.find_element(By.ID, "live")
                    WebDriverWait(browser, _PATIENCE_S).until(lambda _, live=live: "is live" in live.text)
                    browser.save_screenshot(str(folder / f"{name}-{width}-{scheme}.png"))


def main() -> None:
    """Run a front and an agent, and make the pictures of them."""
    if problem := missing():
        sys.exit(problem)
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="sharedroutes-pictures-") as scratch:
        place = Path(scratch)
        with staged(place) as stage:
            shoot(stage, place / "chromium", folder)
    print(folder)


if __name__ == "__main__":
    main()

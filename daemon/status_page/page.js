"use strict";
(() => {
  const AGAIN_MS = 10000;
  const live = document.getElementById("live");
  const waiting = new Map();

  const isSelected = (section) => {
    const chosen = document.getSelection();
    return chosen && !chosen.isCollapsed && chosen.containsNode(section, true);
  };

  const replace = (section, html) => {
    const focused = section.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    section.innerHTML = html;
    if (focused) section.querySelector(`a[href="${focused}"]`)?.focus({ preventScroll: true });
  };

  const show = () => {
    for (const [anchor, html] of waiting) {
      const section = document.getElementById(anchor);
      if (!section) {
        location.reload();
        return;
      }
      if (isSelected(section)) continue;
      replace(section, html);
      waiting.delete(anchor);
    }
  };

  const say = (text, isLost) => {
    if (live.textContent !== text) live.textContent = text;
    live.classList.toggle("lost", isLost);
  };

  const follow = () => {
    const source = new EventSource("events" + location.search);
    source.onmessage = (event) => {
      for (const [anchor, html] of Object.entries(JSON.parse(event.data))) waiting.set(anchor, html);
      show();
      say("This page is live.", false);
    };
    source.onerror = () => {
      say("This page is not live: the process does not answer, or too many pages follow it. It tries again.", true);
      if (source.readyState === EventSource.CLOSED) setTimeout(follow, AGAIN_MS);
    };
  };

  document.addEventListener("selectionchange", show);
  follow();
})();

// The panel, keyboard shortcuts, colours and live cards. Without this script every link still works.
(() => {
  "use strict";
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const store = {
    get(name) { try { return localStorage.getItem(name); } catch { return null; } },
    set(name, value) { try { localStorage.setItem(name, value); } catch { /* the choice is not saved */ } },
  };

  // Colours: system, light or dark.
  const themes = ["auto", "light", "dark"];
  const shown = { auto: ["◐", "system"], light: ["☀", "light"], dark: ["☾", "dark"] };
  const theme = () => (themes.includes(store.get("theme")) ? store.get("theme") : "auto");
  const showTheme = () => {
    const name = theme(), button = $("#theme");
    if (name === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = name;
    button.textContent = shown[name][0];
    button.setAttribute("aria-label", `Colours: ${shown[name][1]}`);
  };
  const nextTheme = () => {
    store.set("theme", themes[(themes.indexOf(theme()) + 1) % themes.length]);
    showTheme();
  };

  // The panel shows the target of a link. Closing it returns the focus to where it was.
  const panel = $("#panel");
  let opener = null;
  const close = () => {
    if (panel.hidden) return;
    panel.hidden = true;
    panel.replaceChildren();
    document.body.classList.remove("with-panel");
    if (opener?.isConnected) opener.focus();
    opener = null;
  };
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.target === panel && !panel.contains(event.detail.elt)) {
      const active = document.activeElement;
      opener = active?.closest(".card, .hit, .item")?.contains(event.detail.elt) ? active : event.detail.elt;
    }
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.detail.target !== panel) return;
    panel.hidden = false;
    document.body.classList.add("with-panel");
    $("#panel-title", panel)?.focus({ preventScroll: true });
    panel.scrollTop = 0;
    const chosen = $(".evidence", panel) ? null : $(".chosen", panel);
    if (chosen) panel.scrollTop = Math.max(0, chosen.offsetTop - panel.clientHeight / 3);
  });
  document.addEventListener("htmx:sendError", () => { say("The server is not responding."); });
  panel.addEventListener("click", (event) => { if (event.target.closest("[data-close]")) close(); });

  // Live cards: replace a card that is on the page, put a new one on top.
  const say = (text) => { $("#announce").textContent = text; };
  let unread = 0;
  const title = document.title;
  const count = () => { document.title = unread ? `(${unread}) ${title}` : title; };
  const visit = () => {
    const seen = $("[data-seen]")?.dataset.seen;
    if (seen && !document.hidden) fetch(seen, { method: "POST" }).catch(() => {});
  };
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (event.detail.type !== "summary") return;
    const id = /<article[^>]* id="(w-\d+)"/.exec(event.detail.data)?.[1];
    const there = id && document.getElementById(id);
    const newest = Math.max(-1, ...$$(".card").map((card) => Number(card.dataset.seq)));
    if (there) {
      event.preventDefault();
      htmx.swap(there, event.detail.data, { swapStyle: "outerHTML" });
    } else if (Number(id.slice(2)) < newest) {
      event.preventDefault(); // it belongs to a window that is not on this page
    }
  });
  document.addEventListener("htmx:sseMessage", (event) => {
    if (event.detail.type !== "summary") return;
    say("A new summary has arrived.");
    if (document.hidden) { unread += 1; count(); }
    visit();
  });
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && unread) { unread = 0; count(); visit(); }
  });

  // Keyboard shortcuts.
  const help = $("#help"), single = $("#shortcuts");
  single.checked = store.get("shortcuts") !== "off";
  single.addEventListener("change", () => store.set("shortcuts", single.checked ? "on" : "off"));
  const stops = () => (panel.contains(document.activeElement)
    ? $$(".message", panel) : $$("main .card, main .hit, main .channel, main .item, main .message"));
  const current = () => document.activeElement?.closest(".card, .hit, .channel, .item, .message");
  const go = (step) => {
    const all = stops(), at = all.indexOf(current());
    const next = at < 0 ? all[step > 0 ? 0 : all.length - 1] : all[at + step];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  const nextGap = () => {
    const card = current()?.closest(".card") ?? opener?.closest(".card") ?? $("main .card");
    if (!card) return;
    const gaps = $$(".gap:not(.open-gap)", card).filter((gap) => gap.checkVisibility());
    const at = gaps.indexOf(card.contains(opener) ? opener : document.activeElement);
    const gap = gaps[(at + 1) % gaps.length];
    if (!gap) { say("No phrase in this card has an explanation."); return; }
    gap.focus();
    gap.click();
  };
  const keys = {
    j: () => go(1),
    k: () => go(-1),
    e: nextGap,
    t: nextTheme,
    c: () => $("#catchup")?.click(),
    u: () => { location.href = "/"; },
    "/": () => $("#q")?.focus(),
    "?": () => help.showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help.open) return;
    if (event.key === "Escape") { document.activeElement?.matches("#q") ? document.activeElement.blur() : close(); return; }
    if (event.target.closest("input, textarea, select")) return;
    const here = document.activeElement;
    if (event.key === "Enter" && here?.matches(".card, .hit, .channel, .item")) {
      event.preventDefault();
      $(here.matches(".channel") ? "a" : ".open", here)?.click();
    } else if (single.checked && keys[event.key]) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  $("#theme").addEventListener("click", nextTheme);
  $("#help-open").addEventListener("click", () => help.showModal());
  showTheme();
})();

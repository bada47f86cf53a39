// What a reader would stumble over: a list of sentences, empty if all is well.
(() => {
  const faults = [];
  const say = (what, element) => faults.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
  const shown = (element) => element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  // Names and structure.
  if (!document.documentElement.lang) faults.push("no language");
  if (!document.title.trim()) faults.push("no title");
  if (document.querySelectorAll("h1").length !== 1) faults.push("not one h1");
  if (document.querySelectorAll("main").length !== 1) faults.push("not one main");
  let last = 0;
  for (const heading of document.querySelectorAll("h1,h2,h3,h4,h5,h6")) {
    const level = Number(heading.tagName[1]);
    if (level > last + 1) say("heading skips a level", heading);
    if (!heading.textContent.trim()) say("empty heading", heading);
    last = level;
  }
  const ids = [...document.querySelectorAll("[id]")].filter((e) => !e.closest(".plot, svg")).map((e) => e.id);
  ids.filter((id, at) => ids.indexOf(id) !== at).forEach((id) => faults.push(`id twice: ${id}`));
  document.querySelectorAll("img:not([alt])").forEach((e) => say("picture without alt", e));
  document.querySelectorAll("[role=img]:not([aria-label]):not([aria-labelledby])").forEach((e) => say("no label", e));
  document.querySelectorAll("canvas").forEach((e) => e.closest("[role=img]") || say("canvas without role", e));
  document.querySelectorAll("table:not(.highlighttable)").forEach((e) => {
    if (!e.querySelector("th")) say("table without headings", e);
  });
  document.querySelectorAll("button, a[href], summary, input:not([type=hidden]), select, textarea").forEach((e) => {
    const name = e.textContent.trim() || e.getAttribute("aria-label") || e.title || e.labels?.[0]?.textContent.trim()
      || e.querySelector("img[alt]")?.alt || e.placeholder;
    if (!name && shown(e)) say("control without a name", e);
  });
  document.querySelectorAll("[tabindex]").forEach((e) => e.tabIndex > 0 && say("order of tabs is forced", e));

  // Contrast of all text with what is behind it (WCAG 2.2 AA).
  const parse = (text) => {
    const canvas = parse.canvas ??= new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = text;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, bottom) => [0, 1, 2].map((i) => top[i] * top[3] + bottom[i] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) layers.unshift(parse(getComputedStyle(e).backgroundColor));
    return layers.reduce((bottom, top) => over(top, bottom), parse(getComputedStyle(document.documentElement).colorScheme.includes("dark") ? "#121212" : "#ffffff"));
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || seen.has(element) || !shown(element)) continue;
    if (element.closest("script, style, noscript, [aria-hidden=true], [disabled]")) continue;
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.height === 0 || box.right < 0) continue;
    seen.add(element);
    const style = getComputedStyle(element);
    const ink = parse(element instanceof SVGElement ? style.fill : style.color);
    for (let e = element; e; e = e.parentElement) ink[3] *= Number(getComputedStyle(e).opacity);
    const back = behind(element);
    const [a, b] = [light(over(ink, back)), light(back)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (large ? 3 : 4.5)) say(`contrast ${ratio.toFixed(2)}`, element);
  }
  return faults;
})()

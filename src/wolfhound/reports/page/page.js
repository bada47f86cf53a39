"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const charts = [...document.querySelectorAll("figure.chart")].map((figure) => ({
    place: figure.querySelector(".plot"),
    views: JSON.parse(figure.querySelector("script").textContent),
    view: figure.querySelector(".switch input:checked")?.value,
    figure,
  }));
  const BUTTONS = ["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"];
  let chosen = null; // what the reader chose; null: what the system says

  const value = (name) => getComputedStyle(root).getPropertyValue(name).trim();
  const colour = (slot) => (slot < 0 ? value("--grey") : value(`--c${slot % 6}`));
  const fade = (hex, share) => hex + Math.round(255 * share).toString(16).padStart(2, "0");

  function paint(trace) {
    const slot = trace.meta.slot;
    const look = { ...trace };
    if (trace.type === "heatmap") {
      look.colorbar = { ...trace.colorbar, tickcolor: value("--soft"), tickfont: { color: value("--soft") } };
      return look;
    }
    look.marker = { ...trace.marker, color: colour(slot), line: { color: value("--card"), width: trace.type === "bar" ? 0 : 0.6 } };
    if (trace.line) look.line = { ...trace.line, color: colour(slot) };
    if (trace.fill) look.fillcolor = fade(colour(slot), 0.18);
    return look;
  }

  function dress(layout, narrow) {
    const axis = (given) => ({
      gridcolor: value("--line"), linecolor: value("--grey"), zeroline: false, ticks: "outside", tickcolor: value("--line"),
      automargin: true, ...given, title: { standoff: 12, ...given.title },
    });
    return {
      margin: { l: 64, r: 16, t: 12, b: 52 }, hovermode: "closest", showlegend: true,
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", itemsizing: "constant" },
      ...layout, xaxis: axis(layout.xaxis), yaxis: axis(layout.yaxis),
      font: { family: getComputedStyle(document.body).fontFamily, size: narrow ? 12 : 13, color: value("--ink") },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      hoverlabel: { bgcolor: value("--card"), bordercolor: value("--grey"), font: { color: value("--ink") } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: value("--soft"), activecolor: value("--accent") },
    };
  }

  function draw(chart) {
    const shown = chart.views[chart.view] ?? Object.values(chart.views)[0];
    const one = shown.data.filter((trace) => trace.showlegend !== false).length < 2;
    const layout = { showlegend: !one, ...shown.layout };
    // Named one by one: no button that a later plotly brings may ask a network.
    const config = { displaylogo: false, responsive: true, modeBarButtons: [BUTTONS] };
    Plotly.react(chart.place, shown.data.map(paint), dress(layout, chart.place.clientWidth < 560), config);
  }

  function setTheme() {
    const dark = chosen === null ? system.matches : chosen === "dark";
    root.dataset.theme = dark ? "dark" : "light";
    button.setAttribute("aria-pressed", String(dark));
    charts.forEach(draw);
  }

  button.addEventListener("click", () => {
    chosen = root.dataset.theme === "dark" ? "light" : "dark";
    setTheme();
  });
  system.addEventListener("change", setTheme);
  charts.forEach((chart) => {
    chart.figure.querySelectorAll(".switch input").forEach((input) =>
      input.addEventListener("change", () => {
        chart.view = input.value;
        draw(chart);
      }),
    );
  });
  // On paper there is nothing to open, and it is white.
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((each) => (each.open = true));
    root.dataset.theme = "light";
    charts.forEach(draw);
  });
  addEventListener("afterprint", () => {
    closed.forEach((each) => (each.open = false));
    setTheme();
  });
  setTheme();
})();

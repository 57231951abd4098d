"use strict";
(() => {
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 760px)");
  const style = getComputedStyle(document.documentElement);

  // The plotting library takes colours, not variables: put the style sheet's present values in.
  const colour = (text) => text.replace(/^var\((--[\w-]+)\)$/, (_, name) => style.getPropertyValue(name).trim());
  const coloured = (value) => {
    if (typeof value === "string") return colour(value);
    if (Array.isArray(value)) return value.map(coloured);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, coloured(inner)]));
    }
    return value;
  };

  // A legend of many lines stands beside the plot, in its groups; on a phone below it.
  const legend = (own) => {
    if (own.legend?.orientation !== "v") {
      return { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", traceorder: "normal" };
    }
    const place = narrow.matches ? { x: 0, y: -0.2, yanchor: "top" } : { x: 1.02, y: 1 };
    return { ...own.legend, ...place, tracegroupgap: 6 };
  };

  const axis = { gridcolor: "var(--rule)", linecolor: "var(--rule)", zeroline: false, automargin: true,
                 fixedrange: false, ticks: "" };
  const layout = (own) => coloured({
    ...own,
    xaxis: { ...axis, showgrid: false, ...own.xaxis },
    yaxis: { ...axis, rangemode: own.barmode ? "tozero" : "normal", ...own.yaxis },
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: "var(--ink)" },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 10, r: 10, t: 8, b: 10 },
    hovermode: "x unified",
    hoverlabel: { bgcolor: "var(--card)", bordercolor: "var(--rule)", font: { color: "var(--ink)" } },
    showlegend: true,
    legend: legend(own),
    height: undefined, // the style sheet's
    bargap: 0.25,
    // On a phone a finger on a plot must scroll the page.
    dragmode: narrow.matches ? false : "zoom",
  });

  const draw = () => {
    for (const chart of charts) {
      Plotly.react("chart-" + chart.key, coloured(chart.traces), layout(chart.layout),
                   { responsive: true, displayModeBar: false });
    }
  };
  draw();
  dark.addEventListener("change", draw);
  narrow.addEventListener("change", draw);
})();

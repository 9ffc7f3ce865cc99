/* Draws the charts of a page from their Vega-Lite documents, where the server had no pictures. Needs vega, vega-lite and
   the expression interpreter: nothing here is built from text and run. */
(function () {
  "use strict";
  const DROPPED = /^(aria-|role$|class$|font-family$|pointer-events$|style$)/;
  const SVG = "http://www.w3.org/2000/svg";

  function tidy(element, prefix) {
    for (const attribute of Array.from(element.attributes)) {
      if (DROPPED.test(attribute.name)) element.removeAttribute(attribute.name);
      else if (attribute.name === "id") element.id = prefix + attribute.value;
      else if (attribute.name === "clip-path") {
        element.setAttribute("clip-path", attribute.value.replace("url(#", "url(#" + prefix));
      }
    }
    for (const child of element.children) tidy(child, prefix);
  }

  function draw(box) {
    const document_of = JSON.parse(document.getElementById("spec-" + box.dataset.chart).textContent);
    const runtime = vega.parse(vegaLite.compile(document_of).spec, null, { ast: true });
    const view = new vega.View(runtime, { expr: vegaInterpreter.expressionInterpreter, renderer: "none" });
    return view.toSVG().then(function (text) {
      const svg = document.importNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement, true);
      if (svg.namespaceURI !== SVG) throw new Error("the drawing is no picture");
      tidy(svg, box.dataset.chart + "-");
      svg.removeAttribute("width");
      svg.removeAttribute("height");
      svg.setAttribute("class", "chart");
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", box.dataset.summary);
      box.replaceChildren(svg);
      view.finalize();
    });
  }

  for (const box of document.querySelectorAll("[data-chart]")) {
    box.setAttribute("aria-busy", "true");
    Promise.resolve(box).then(draw).catch(function () {
      box.textContent = "This chart could not be drawn. Its numbers stand below.";
    }).finally(function () {
      box.removeAttribute("aria-busy");
    });
  }
})();

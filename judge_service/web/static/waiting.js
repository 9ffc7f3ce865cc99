/* Waits for a report that is being made, then opens it. Without this script the page's link does the same. */
(function () {
  "use strict";
  const place = document.getElementById("waiting");
  const live = document.getElementById("live");

  function ask() {
    fetch(place.dataset.address, { headers: { Accept: "text/html" }, credentials: "same-origin" }).then(function (answer) {
      if (answer.status === 202) {
        live.textContent = "The report is still being made.";
        ask();
      } else {
        location.reload();
      }
    }).catch(function () {
      place.textContent = "The service does not answer. Reload this page to try again.";
    });
  }

  ask();
})();

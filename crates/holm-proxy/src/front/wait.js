(function look() {
  fetch(location.href, { headers: { "Holm-Waiting": "1" }, cache: "no-store" }).then(
    function (answer) { if (answer.status === 204) location.reload(); else setTimeout(look, 400); },
    function () { setTimeout(look, 1000); });
})();

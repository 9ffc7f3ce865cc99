// Says before the first drawing that script works: what needs it is shown, what replaces it is not.
document.documentElement.classList.add("js");

// Sends a form to the service as script does: what comes back, or why nothing did.

const RETRY = [408, 425, 429, 500, 502, 503, 504];

// {kind: "page", ...} for a part of the page, "away" for no connection or a busy service, "signed_out",
// "old" for a page older than the sign-in, "problem" for what else went wrong.
export async function send(address, body, options = {}) {
  let response;
  try {
    response = await fetch(address, {
      method: "POST",
      body: new URLSearchParams(body),
      headers: { Accept: "application/json" },
      credentials: "same-origin",
      ...options,
    });
  } catch {
    return { kind: "away", detail: "No connection." };
  }
  let content = null;
  try {
    content = await response.json();
  } catch {
    // A proxy in between answers with a page of its own.
    return { kind: "away", detail: `The service did not answer (${response.status}).` };
  }
  if (typeof content.html === "string") return { kind: "page", status: response.status, ...content };
  if (response.status === 401) return { kind: "signed_out" };
  if (content.code === "cross_site") return { kind: "old" };
  if (RETRY.includes(response.status)) return { kind: "away", detail: `The service is busy (${response.status}).` };
  return { kind: "problem", detail: content.detail ?? `The service answered ${response.status}.` };
}

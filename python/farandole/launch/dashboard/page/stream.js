// What the server tells this page, as server-sent events.

const AGAIN_MS = 3000;
// The server tells something every two seconds at least, a controller that has a running job as well.
export const SILENT_MS = 8000;

export function listen(take) {
  const source = new EventSource("events");
  source.onmessage = (message) => take(JSON.parse(message.data));
  // A stream that broke is opened again by the browser, one that was refused is not.
  source.onerror = () => {
    if (source.readyState === EventSource.CLOSED) setTimeout(() => listen(take), AGAIN_MS);
  };
}

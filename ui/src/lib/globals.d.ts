/** The worker's address, which build.mjs fills in. */
declare const HIGHLIGHT_WORKER: string;

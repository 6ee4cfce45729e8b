// The agents that holm knows without settings.
export const KNOWN_AGENTS = ["claude", "codex", "gemini", "opencode", "aider"];

-- Calls of webhooks are bounded for each who submits, and no longer for a host and port alone.

COMMENT ON COLUMN webhook.destination IS 'The host and port of the address and who submitted, by which calls are bounded.';

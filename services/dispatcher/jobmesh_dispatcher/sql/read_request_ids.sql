-- What idempotency keys stand for. A statement of its own: one that also inserts would not see a
-- row committed meanwhile.
SELECT request.namespace, request.request_id, request.job_id, request.digest
FROM jobmesh.request_ids request
JOIN unnest($1::text[], $2::text[]) AS wanted (namespace, request_id) USING (namespace, request_id)

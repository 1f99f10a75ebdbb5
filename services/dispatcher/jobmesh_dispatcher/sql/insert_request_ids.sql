-- Takes callers' idempotency keys; those that are taken already are left out. $1 namespaces, $2
-- request ids, $3 job ids, $4 digests.
INSERT INTO jobmesh.request_ids (namespace, request_id, job_id, digest)
SELECT namespace, request_id, job_id, digest
FROM unnest($1::text[], $2::text[], $3::uuid[], $4::bytea[]) AS request (namespace, request_id, job_id, digest)
ORDER BY namespace, request_id
ON CONFLICT (namespace, request_id) DO NOTHING
RETURNING job_id

-- Holds sessions under their attachment until the claim commits: ending or moving one waits. FOR
-- KEY SHARE lets renewals pass. $1 session ids, $2 attachments.
SELECT session.session_id FROM jobmesh.sessions session
JOIN unnest($1::uuid[], $2::uuid[]) AS mine (session_id, attachment)
    ON session.session_id = mine.session_id AND session.attachment = mine.attachment
WHERE session.end_time IS NULL
ORDER BY session.session_id
FOR KEY SHARE OF session

"""Members of the classic protocol in a group whose coordinator assigns: what they say is translated.

Such a member joins by JoinGroup, is never the leader, and has its assignment made by the coordinator. Its
generation is its epoch. It goes a step each time that it joins, and hears in answers to its heartbeats that
it is to do so (KIP-848, "Online consumer group upgrade").
"""

"""The model of the timeline: events of a cluster, in memory that is bounded, as rows of lanes over time.

`places` name events; `journal` keeps their records; `lanes` are what changes over time; `rows` are the parts
of the cluster that have lanes; `facts` put an event into rows; `view` says what is asked for, and `drawing`
makes the lanes of it; `telling` and `explanation` say what happened.
"""
